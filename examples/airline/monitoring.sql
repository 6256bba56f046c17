-- The operations centre's: who is on standby for a delayed flight and has handed in a bag, how the weather
-- is where the flight is to leave, and which seats to the same destination are being sold meanwhile.
SELECT f.num, f.departs, c.passenger, b.bag, b.area, w.forecast, s.dest, s.seats, s.price
FROM flights [RANGE 5 MINUTES] f, checkins [RANGE 3 MINUTES] c, baggage [RANGE 2 MINUTES] b,
     weather [RANGE 5 MINUTES SLIDE 2 MINUTES] w, sales [RANGE 1 MINUTE] s
WHERE f.num = c.flight AND c.passenger = b.passenger AND f.origin = w.airport AND f.dest = s.dest
  AND f.status = 'delayed' AND c.status = 'standby' AND b.status = 'accepted'
