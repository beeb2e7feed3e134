"""Places in other projects: which they are, and whether they still say so."""
