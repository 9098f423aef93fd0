"""What each metric is: unit, direction, formula, and the files from which it is computed."""
