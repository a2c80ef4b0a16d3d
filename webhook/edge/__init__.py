"""HTTP; the only package that imports Flask."""
