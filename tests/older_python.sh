#!/bin/sh
# Runs the tests marked py310 on Python 3.10, the Python of TPU VMs, if there is one.
set -eu
python=
for candidate in "${PYTHON310:-}" python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python3.10 "$HOME"/.local/share/uv/python/cpython-3.10*/bin/python3.10; do
    if [ -n "$candidate" ] && "$candidate" -c 'import venv, sys; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "No Python 3.10 found; its tests do not run. PYTHON310=/path/to/python3.10 names one."
    exit 0
fi
venv=.venv-3.10
if [ ! -e $venv/.ready ] || [ pyproject.toml -nt $venv/.ready ] || [ constraints.txt -nt $venv/.ready ]; then
    "$python" -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
    touch $venv/.ready
fi
echo "On $($venv/bin/python --version):"
# Only these files are imported: importing all takes longer than running them.
# shellcheck disable=SC2046
exec $venv/bin/python -m pytest -q -p no:cacheprovider -m py310 -n 2 --dist loadgroup --no-loadscope-reorder "$@" \
    $(grep -rlF pytest.mark.py310 tests --include='test_*.py')
