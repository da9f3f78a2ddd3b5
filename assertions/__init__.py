"""Judges decide from a recorded history what held and what did not. They are pure: an old run can be judged again."""
