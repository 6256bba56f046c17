"""Commands one after another in one process."""

import io

from thalweg.cli.series import series


def test_each_line_is_a_command_and_the_first_that_fails_ends_it(capsys):
    assert series(io.StringIO("planners --json\n--version\n")) == 0
    assert '"planners"' in capsys.readouterr().out
    assert series(io.StringIO("plan 'no such.sql' --catalog none.yaml\n--version\n")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("thalweg: ")
