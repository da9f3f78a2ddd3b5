"""One judge for each file: the promise that it checks, the evidence that it reads, and the texts of its results."""
