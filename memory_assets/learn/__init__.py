"""Silos curated into PAI's canonical homes: check, review, apply, and the loader of what was curated."""
