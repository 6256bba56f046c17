SELECT f.gate, b.status AS bags, c.status AS checkin
FROM flights [RANGE 5 MINUTES] f, baggage [RANGE 1 MINUTE] b, checkins [RANGE 1 MINUTE] c
WHERE f.num = c.flight AND f.num = b.flight
