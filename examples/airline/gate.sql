-- A gate agent's: one flight's gate, the state of its bags and of its check-ins.
SELECT f.gate, b.status AS bags, c.status AS checkin
FROM flights [RANGE 5 MINUTES SLIDE 1 MINUTE] f, baggage [RANGE 1 MINUTE] b, checkins [RANGE 1 MINUTE] c
WHERE f.num = c.flight AND f.num = b.flight AND f.num = 'DL2159'
