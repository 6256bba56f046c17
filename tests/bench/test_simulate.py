"""The benchmark of the simulator."""

from thalweg.bench import simulate


def test_each_setting_is_simulated():
    found = simulate.measure(lambda line: None, rate=300.0, seconds=2.0)
    assert [s.setting for s in found] == list(simulate.SETTINGS)
    assert len({s.results for s in found}) == 1
    assert found[0].results > 0
    # The cheapest tree meets where the most tuples are, and joins two streams before it ships them.
    assert found[1].tuple_hops == found[2].tuple_hops < found[0].tuple_hops < found[0].tuples
    assert all(len(row) == len(simulate.COLUMNS) for row in simulate.rows(found))
