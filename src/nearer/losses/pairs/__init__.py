"""Losses on pairs, triplets and neighbor sets of a batch: each is a weight on pairs."""
