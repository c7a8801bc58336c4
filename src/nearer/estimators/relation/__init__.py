"""Relation alignment: metrics for label sets, distributions, numbers and classes."""
