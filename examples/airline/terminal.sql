-- The overhead displays of a terminal: one airline's flights there, where their bags are, and the weather.
SELECT f.num, f.gate, b.area, c.status, w.forecast
FROM flights [RANGE 5 MINUTES SLIDE 1 MINUTE] f, weather [RANGE 5 MINUTES] w,
     checkins [RANGE 1 MINUTE] c, baggage [RANGE 1 MINUTE] b
WHERE f.origin = w.airport AND f.num = c.flight AND f.num = b.flight
  AND f.terminal = 'JFK-4' AND f.carrier = 'DL'
