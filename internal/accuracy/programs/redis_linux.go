// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"time"
)

// startRedis starts a server that also saves in the background, from a child.
func startRedis(ctx context.Context, p *Place) (*Running, error) {
	paths, err := findAll("redis-server", "redis-benchmark")
	if err != nil {
		return nil, err
	}
	socket := p.path("redis.sock")
	server, err := p.serve(ctx, "unix", socket, paths[0], "--port", "0", "--unixsocket", socket, "--dir", p.Dir, "--save", "3 1000")
	if err != nil {
		return nil, err
	}
	load := func(ctx context.Context, d time.Duration) error {
		client := []string{paths[1], "-s", socket, "-q", "-l", "-c", "8", "-r", "100000"}
		commands := append(client[:len(client):len(client)], "-n", "20000", "-t", "set,get,incr,lpush,lpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset")
		script := append(client[:len(client):len(client)], "-n", "20000", "eval",
			"local t = {}; for i = 1, 50 do t[i] = i * 7 % 31 end; table.sort(t); return redis.call('set', 'k', cjson.encode(t))", "0")
		return p.runFor(ctx, d, commands, script)
	}
	return &Running{Exe: paths[0], main: server, load: load}, nil
}
