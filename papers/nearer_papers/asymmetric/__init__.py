"""The experiments of asymmetric similarity learning."""
