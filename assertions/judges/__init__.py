"""One file, one judge: what it promises, what it looks at, and the words it fails with."""
