"""The experiments of joint representation diversification."""
