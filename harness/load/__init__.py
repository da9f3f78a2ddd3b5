"""Load: sends the planned requests to a target, and writes down what each of them saw. Runs in a process of its own."""
