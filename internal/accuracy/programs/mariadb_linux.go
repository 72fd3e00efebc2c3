// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"time"
)

// startMariaDB makes a data folder of its own.
func startMariaDB(ctx context.Context, p *Place) (*Running, error) {
	paths, err := findAll("mariadbd", "mariadb-install-db", "mariadb-slap")
	if err != nil {
		return nil, err
	}
	data, socket := p.path("data"), p.path("mariadb.sock")
	if err := p.run(ctx, paths[1], "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return nil, err
	}
	server, err := p.serve(ctx, "unix", socket, paths[0], "--no-defaults", "--datadir="+data, "--socket="+socket,
		"--pid-file="+p.path("mariadb.pid"), "--skip-networking", "--innodb-flush-log-at-trx-commit=0")
	if err != nil {
		return nil, err
	}
	load := func(ctx context.Context, d time.Duration) error {
		return p.runFor(ctx, d, []string{paths[2], "--no-defaults", "--socket=" + socket, "--user=root", "--auto-generate-sql",
			"--auto-generate-sql-load-type=mixed", "--auto-generate-sql-add-autoincrement", "--auto-generate-sql-secondary-indexes=2",
			"--concurrency=4", "--number-of-queries=1000000", "--engine=innodb"})
	}
	return &Running{Exe: paths[0], main: server, load: load}, nil
}
