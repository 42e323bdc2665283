"""The experiment that compares ways to feed a model: `python -m trainer.bench_input`."""
