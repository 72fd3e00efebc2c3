// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// startPostgres makes a cluster of its own and fills it for pgbench.
func startPostgres(ctx context.Context, p *Place) (*Running, error) {
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(bins) == 0 {
		return nil, fmt.Errorf("%w: no /usr/lib/postgresql/*/bin/postgres", ErrAbsent)
	}
	postgres := bins[len(bins)-1]
	dir := filepath.Dir(postgres)
	pgbench := filepath.Join(dir, "pgbench")
	data := p.path("data")
	if err := p.run(ctx, filepath.Join(dir, "initdb"), "-D", data, "-A", "trust", "-U", "judge", "--no-sync"); err != nil {
		return nil, err
	}
	server, err := p.serve(ctx, "unix", p.path(".s.PGSQL.5432"), postgres, "-D", data, "-k", p.Dir, "-c", "listen_addresses=", "-c", "fsync=off")
	if err != nil {
		return nil, err
	}
	r := &Running{Exe: postgres, main: server}
	queries, err := p.write("queries.sql")
	if err == nil { // it listens before it answers
		err = p.until(ctx, filepath.Join(dir, "pg_isready"), "-h", p.Dir, "-U", "judge")
	}
	if err == nil {
		err = p.run(ctx, pgbench, "-h", p.Dir, "-U", "judge", "-i", "-q", "-s", "2", "postgres")
	}
	if err != nil {
		return nil, fmt.Errorf("filling the database: %w", joinStop(err, r))
	}
	client := []string{pgbench, "-h", p.Dir, "-U", "judge", "-n", "-c", "4", "-T", seconds(time.Hour)}
	r.load = func(ctx context.Context, d time.Duration) error {
		for _, how := range [][]string{{"-N"}, {"-S", "-M", "prepared"}, {"-f", queries}, {"-C", "-S"}} {
			command := append(client[:len(client):len(client)], how...)
			if err := p.runFor(ctx, d/4, append(command, "postgres")); err != nil {
				return err
			}
		}
		return nil
	}
	return r, nil
}
