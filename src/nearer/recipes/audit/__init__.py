"""Which labels are wrong: planted flips, found by the audit and by cleanlab."""
