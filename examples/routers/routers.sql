-- Which packets to the same host passed all three routers within half a second?
SELECT a.dest, a.size + b.size + c.size AS bytes, result_time
FROM router1 [RANGE 500 MILLISECONDS] a, router2 [RANGE 500 MILLISECONDS] b, router3 [RANGE 500 MILLISECONDS] c
WHERE a.dest = b.dest AND b.dest = c.dest
