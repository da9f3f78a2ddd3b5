"""What must hold: judges over a recorded history. Pure; an old run can be judged again years later."""
