"""What `grade gate` holds an exercise set to: `layout` looks at its files, `solutions` gathers what is known to be right
and what is known to be wrong, `mutation` makes more of the latter, `trial` grades all of it and says what came out otherwise."""
