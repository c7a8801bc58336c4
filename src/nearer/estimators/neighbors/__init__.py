"""Predictors by nearest neighbors, and asymmetric similarities learned for them."""
