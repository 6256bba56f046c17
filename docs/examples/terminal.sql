SELECT f.num, f.gate, b.area, c.status, w.forecast
FROM flights [RANGE 5 MINUTES] f, weather [RANGE 5 MINUTES] w,
     checkins [RANGE 1 MINUTE] c, baggage [RANGE 1 MINUTE] b
WHERE f.dest = w.city AND f.num = c.flight AND f.num = b.flight AND f.terminal = 'B'
