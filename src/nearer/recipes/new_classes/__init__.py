"""Heads for classes never seen: do they harm?"""
