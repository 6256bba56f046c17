import pytest

from thalweg.catalog.model import Catalog, Costs, JoinSelectivity, Site, Source, Stats, Stream
from thalweg.errors import UserError
from thalweg.plan.document import Plan
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse

COLUMNS = {"ts": "timestamp", "x": "long", "y": "long", "name": "string"}


def catalog(stats=None, sites=None, **more):
    names = ("s0", "s1", "s2", "s3")
    return Catalog(
        path="c.yaml",
        sites={"n1": Site(), "n2": Site()},
        streams={
            n: Stream(
                name=n,
                site=(sites or {}).get(n, "n1"),
                time="ts",
                columns=COLUMNS,
                source=Source(format="parquet"),
                stats=Stats(**(stats or {}).get(n, {})),
            )
            for n in names
        },
        **more,
    )


def plan(sql, known=None, **options):
    known = known or catalog()
    return make_plan([parse(sql, name="q", schemas=known.schemas)], known, PlanOptions(**options)).queries[0]


def joins(planned):
    return {o.id: o.inputs for o in planned.deployment.operators if o.kind == "join"}


def edge(planned, source):
    return next(e for e in planned.deployment.edges if e.source == source)


def test_one_attribute_is_one_join():
    planned = plan(
        "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b, s2 [ROWS 5] c "
        "WHERE a.x = b.x AND b.x = c.y"
    )
    assert joins(planned) == {"join1": ("a", "b", "c")}
    assert planned.deployment.sites == ("n1",)
    assert (planned.cost, planned.planner) == (0, "local")


def test_several_attributes_are_a_tree():
    planned = plan(
        "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b, s2 [ROWS 5] c, s3 [ROWS 5] d "
        "WHERE c.y = d.y AND a.x = b.x AND b.y = c.x AND a.name = b.name"
    )
    assert joins(planned) == {"join1": ("a", "b"), "join2": ("join1", "c"), "join3": ("join2", "d")}
    first = planned.deployment.operator("join1")
    assert len(first.on) == 2  # both equalities between a and b


def test_every_equality_is_applied_where_its_streams_meet():
    planned = plan(
        "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b, s2 [ROWS 5] c "
        "WHERE a.x = b.x AND b.y = c.y AND a.name = c.name"
    )
    assert joins(planned) == {"join1": ("a", "b"), "join2": ("join1", "c")}
    assert [sorted(members) for members in planned.deployment.operator("join2").on] == [
        ["b", "c"],
        ["a", "c"],
    ]


def test_rates_of_pmjoin_table_2():
    """Streams S_2 and S_3 of the paper's example give 15 tuples a second, and then S_0 gives 9."""
    stats = {"s0": {"rate": 10}, "s2": {"rate": 25}, "s3": {"rate": 30}}
    share = [
        JoinSelectivity(left=("s2", "x"), right=("s3", "x"), selectivity=0.001),
        JoinSelectivity(left=("s0", "y"), right=("s2", "y"), selectivity=0.004),
    ]
    planned = plan(
        "SELECT a.x FROM s2 [RANGE 10 SECONDS] a, s3 [RANGE 10 SECONDS] b, s0 [RANGE 10 SECONDS] c "
        "WHERE a.x = b.x AND c.y = a.y",
        catalog(stats, joins=tuple(share)),
    )
    assert edge(planned, "join1").tuples_per_s == pytest.approx(15)
    assert edge(planned, "join2").tuples_per_s == pytest.approx(9)


def test_what_is_not_declared_is_assumed_and_said():
    planned = plan(
        "SELECT a.name FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b WHERE a.x = b.x AND a.y > 3"
    )
    assert edge(planned, "b").tuples_per_s == 1000
    assert {
        "streams.s1.stats.rate = 1000",
        "streams.s0.stats.distinct.x = 1000",
        "streams.s0.stats.widths.name = 16",
        "`a`.`y` > 3 passes 1/3",
    } <= set(planned.assumed)
    full = {"rate": 10, "bytes": 5, "distinct": {"x": 7}}
    sure = plan(
        "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b WHERE a.x = b.x AND a.x = 1",
        catalog({"s0": full, "s1": full}),
    )
    assert sure.assumed == ()
    assert edge(sure, "a").tuples_per_s == pytest.approx(10 / 7)
    assert edge(sure, "b").bytes_per_s == 50


def test_a_joined_tuple_is_as_wide_as_what_is_still_needed():
    sql = "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b WHERE a.x = b.x"
    planned = plan(sql)
    result = edge(planned, "join1")
    assert result.bytes_per_s == pytest.approx(8 * result.tuples_per_s)
    assert edge(planned, "a").bytes_per_s == pytest.approx(40 * 1000)
    equal = plan(sql, settings={"width": "equal"})
    assert all(e.bytes_per_s == e.tuples_per_s for e in equal.deployment.edges)


def test_time_counts_work():
    sql = "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b WHERE a.x = b.x"
    known = catalog(costs=Costs(probe_s=1e-6, update_s=1e-4))
    # Each of 1000 tuples a second is put into its window and probes the other's 1000 tuples (appendix B).
    assert plan(sql, known, objective=Objective.TIME).cost == pytest.approx(2 * 1000 * (1e-4 + 1e-6 * 1000))


def test_several_sites_are_not_for_local():
    sql = "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b WHERE a.x = b.x"
    apart = catalog(sites={"s1": "n2"})
    with pytest.raises(UserError, match=r"one site, and these are at n1, n2"):
        plan(sql, apart, planner="local")
    assert plan(sql, apart).deployment.sites == ("n1", "n2")
    assert plan(sql, deliver_to="n1").planner == "local"
    assert plan(sql, deliver_to="n1").cost == 0
    assert plan(sql, deliver_to="n2").cost > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"planner": "genius"}, "auto, local, simple"),
        ({"settings": {"wdith": "equal"}}, "wdith.*width"),
        ({"settings": {"width": "none"}}, "columns, equal"),
        ({"deliver_to": "moon"}, "moon.*n1, n2"),
    ],
)
def test_unknown_options_say_what_there_is(options, message):
    sql = "SELECT a.x FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b WHERE a.x = b.x"
    with pytest.raises(UserError, match=message):
        plan(sql, **options)


def test_a_plan_is_saved_and_read_back(tmp_path):
    known = catalog()
    queries = [
        parse(
            f"SELECT a.x FROM s0 [ROWS {n}] a, s1 [ROWS 2] b WHERE a.x = b.x",
            name=f"q{n}",
            schemas=known.schemas,
        )
        for n in (1, 2)
    ]
    made = make_plan(queries, known, PlanOptions())
    path = tmp_path / "new" / "plan.json"
    made.save(path)
    read = Plan.load(path)
    assert read == made
    read.check_is_of(queries, "plan.json")
    with pytest.raises(UserError, match="q1, q2, not for q1"):
        read.check_is_of(queries[:1], "plan.json")
    with pytest.raises(UserError, match="s0 at n1"):
        read.check_fits(catalog(sites={"s0": "n2"}), "plan.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": "other"}',
        '{"format": "thalweg-plan", "version": 99}',
        '{"format": "thalweg-plan", "version": 1, "objective": "bytes", "queries": [1]}',
        '{"format": "thalweg-plan", "version": 1}',
    ],
)
def test_other_files_are_not_plans(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"plan\.json"):
        Plan.load(path)


def test_a_saved_plan_that_can_not_be_read_or_written(tmp_path):
    with pytest.raises(UserError, match="can't be read"):
        Plan.load(tmp_path / "none.json")
    with pytest.raises(UserError, match="can't be written"):
        Plan("bytes", ()).save(tmp_path)
