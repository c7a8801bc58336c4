"""Photos and texts behind trained encoders: raw features beside the learned metric."""
