import math

from tui.text.numbers import format_figure, round_figure


def test_a_figure_has_its_significant_digits() -> None:
    assert str(round_figure(math.fsum([187.2, 187.21, 187.22, 187.23]) * (1 + 2**-52))) == "748.86"
    assert (format_figure(748.86), format_figure(6.875, 5), format_figure(12345.6, apart=True)) == (
        "748.86",
        "6.87500",
        "12,345.60",
    )
    assert (format_figure(0.0042), format_figure(3.21e-7, 5), format_figure(0.0)) == ("0.0042", "3.21e-07", "0.00")
    assert (format_figure(2.5e12, apart=True), format_figure(-1.2e308, 5)) == ("2.5e+12", "-1.2e+308")
    assert (format_figure(math.nan), format_figure(-math.inf)) == ("nan", "-inf")
