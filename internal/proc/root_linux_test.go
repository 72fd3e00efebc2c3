// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestInside(t *testing.T) {
	folder := t.TempDir()
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	require.Equal(t, "/bin/a", Inside(fd, "/bin/a"), "the root cannot be seen")
	for _, c := range []struct{ root, path, want string }{
		{"/", "/bin/a", "/bin/a"},
		{"/", "//bin/a", "/bin/a"},
		{"/srv", "/srv/bin/a", "/bin/a"},
		{"/srv", "/srv/srv/a", "/srv/a"},
		{"/srv", "/srv2/bin/a", "/srv2/bin/a"},
		{"/srv", "/bin/a", "/bin/a"},
		{"/srv", "/srv", "/srv"},
		{"/srv", "", ""},
	} {
		link := filepath.Join(folder, "root")
		require.NoError(t, os.Symlink(c.root, link))
		require.Equal(t, c.want, Inside(fd, c.path), "%s below %s", c.path, c.root)
		require.NoError(t, os.Remove(link))
	}
}
