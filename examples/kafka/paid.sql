-- Orders that were paid within two minutes, with the tier that the customer had at the payment.
SELECT result_id, o.id AS order_id, o.amount, p.method, c.tier, result_time
FROM orders o [RANGE 2 MINUTES], payments p [RANGE 2 MINUTES], customers c [PARTITION BY customer ROWS 1]
WHERE o.id = p.order_id AND o.customer = c.customer AND c.ts <= p.ts
