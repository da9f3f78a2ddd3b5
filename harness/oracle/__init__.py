"""The oracle: a second implementation of the models that the built-in runtime serves, for the replies that are right.

It shares no line with `runtime`: it has its own reader of safetensors and `config.json`, its own arithmetic (NumPy,
float64, one sequence after another) and its own sampler. Tests hold it to golden values of `transformers`.
"""
