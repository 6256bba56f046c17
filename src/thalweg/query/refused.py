"""SQL that is refused by name, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

WITH_GROUPS = (
    "write one of count, sum, min, max and avg as an output column, as in SELECT sum(a.x) AS s ... "
    "GROUP BY TUMBLE(result_time, INTERVAL '1' MINUTE)"
)
LATER = "do it over the results, with Spark or DuckDB on the result files"
_ONE = "write one SELECT; give each part a query of its own"

CLAUSES: Mapping[str, tuple[str, str]] = {
    "GROUP BY": ("GROUP BY here", "it comes last, after WHERE"),
    "HAVING": ("HAVING", "use WHERE for conditions on tuples; " + LATER),
    "ORDER BY": ("ORDER BY", "results have no order; sort the result files"),
    "SORT BY": ("SORT BY", "results have no order; sort the result files"),
    "CLUSTER BY": ("CLUSTER BY", "leave it out; the planner decides where tuples go"),
    "DISTRIBUTE BY": ("DISTRIBUTE BY", "leave it out; the planner decides where tuples go"),
    "LIMIT": ("LIMIT", "a stream has no end; limit what you read of the results"),
    "OFFSET": ("OFFSET", "a stream has no end; limit what you read of the results"),
    "FETCH": ("FETCH", "a stream has no end; limit what you read of the results"),
    "QUALIFY": ("QUALIFY", LATER),
    "WINDOW": ("the WINDOW clause", "a stream's window goes in brackets: flights [RANGE 5 MINUTES]"),
    "UNION": ("UNION", _ONE),
    "UNION ALL": ("UNION ALL", _ONE),
    "INTERSECT": ("INTERSECT", _ONE),
    "EXCEPT": ("EXCEPT", _ONE),
    "MINUS": ("MINUS", _ONE),
    "LATERAL": ("LATERAL", "join streams only; explode arrays over the results"),
    "LATERAL VIEW": ("LATERAL VIEW", "join streams only; explode arrays over the results"),
    "PIVOT": ("PIVOT", LATER),
    "UNPIVOT": ("UNPIVOT", LATER),
    "TABLESAMPLE": ("TABLESAMPLE", "filter with WHERE, for example pmod(hash(column), 100) < 5"),
    "MATCH_RECOGNIZE": ("MATCH_RECOGNIZE", "join the stream with itself under several aliases"),
    "FOR": ("FOR SYSTEM_TIME or VERSION", "the window says which tuples are alive"),
    "INTO": ("INTO", "results go to the folder that --out names"),
}
"""First words of clauses that are refused."""

JOINS: Mapping[str, tuple[str, str]] = {
    "NATURAL": ("", "name the columns: JOIN ... USING (column)"),
    "LATERAL": ("", "join streams only; explode arrays over the results"),
}
"""Words of joins that are refused: more about each, and what to use instead. Of several the first counts."""

_NO_CLOCK = "use a stream's time column, or result_time in SELECT"
_NO_LUCK = "a result must be the same each time it is computed; use a function of the columns, such as hash"
_NO_SESSION = "it depends on the session; write the value"
_NO_GENERATOR = "it makes several rows of one; explode arrays over the results"

_GROUPS: tuple[tuple[str, str, str], ...] = (
    (
        "an aggregate function",
        f"{WITH_GROUPS}; {LATER}",
        "any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate "
        "approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg "
        "bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if "
        "count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id grouping__id "
        "histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double "
        "kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last "
        "last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx "
        "percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope "
        "regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp "
        "string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum "
        "tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double "
        "tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance "
        "vector_avg vector_sum",
    ),
    (
        "a window function",
        LATER,
        "counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number "
        "window session_window window_time",
    ),
    (
        "the current time",
        _NO_CLOCK,
        "curdate current_date current_time current_timestamp localtime localtimestamp now getdate sysdate",
    ),
    (
        "not deterministic",
        _NO_LUCK,
        "rand randn random uniform randstr uuid shuffle monotonically_increasing_id spark_partition_id "
        "input_file_name input_file_block_length input_file_block_start reflect java_method try_reflect "
        "aes_encrypt",
    ),
    (
        "not the same in every session",
        _NO_SESSION,
        "current_catalog current_database current_schema current_path current_timezone current_user "
        "session_user user version",
    ),
    (
        "a generator",
        _NO_GENERATOR,
        "explode explode_outer inline inline_outer posexplode posexplode_outer stack json_tuple "
        "variant_explode variant_explode_outer",
    ),
)

FUNCTIONS: Mapping[str, tuple[str, str]] = {
    name: (why, remedy) for why, remedy, names in _GROUPS for name in names.split()
}
"""Functions that are refused: why, and what to use instead."""

WITHOUT_PARENTHESES = frozenset(
    {
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "current_user",
        "session_user",
        "user",
        "current_catalog",
        "current_database",
        "current_schema",
        "current_path",
        "grouping__id",
    }
)
"""Functions that SQL also calls without parentheses."""
