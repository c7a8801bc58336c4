"""Linear metrics from class labels, pairs, triplets or quadruplets, and their kernel forms."""
