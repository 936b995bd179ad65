-- ST-5, ST-35: lists the next keys of the index.
-- KEYS: index. ARGV: from, to, number of keys.
return redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
