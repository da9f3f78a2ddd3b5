"""Golden values: what `transformers` says for every kind of model that the runtime serves.

    python -m tests.golden        writes `kinds/*.json` and `sampling.json` again, with the installed `transformers`

The files hold configs, shapes, prompts, tokens and log probabilities. Weights follow from the names and shapes of the
tensors (`checkpoint.py`), so that no weights are stored.
"""
