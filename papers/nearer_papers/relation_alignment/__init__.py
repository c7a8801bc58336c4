"""The experiments of relation alignment: classes, label sets, distributions."""
