// SPDX-License-Identifier: Apache-2.0

package aptkernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoadOrder(t *testing.T) {
	needs := map[string][]string{"c": {"b", "a"}, "b": {"a"}, "x": {"y"}, "y": {"x"}}
	of := func(name string) ([]string, error) { return needs[name], nil }
	order, err := loadOrder([]string{"c", "a", "d"}, of)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, order)
	_, err = loadOrder([]string{"x"}, of)
	require.ErrorContains(t, err, "x depends on itself by x, y")
}

func TestParseDepends(t *testing.T) {
	require.Equal(t, []string{"nf_nat", "nf_tables"}, parseDepends("license=GPL\x00depends=nf-nat,nf_tables\x00name=nft_nat\x00"))
	require.Empty(t, parseDepends("depends=\x00name=veth\x00"))
	require.Empty(t, parseDepends(""))
}

// module makes an ELF file with nothing but a .modinfo.
func module(t testing.TB, info string) []byte {
	const names = "\x00.modinfo\x00.shstrtab\x00"
	head := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA], head.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	head.Shoff = uint64(64 + len(info) + len(names))
	var b bytes.Buffer
	for _, part := range []any{
		head, []byte(info), []byte(names), elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: 64, Size: uint64(len(info))},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(64 + len(info)), Size: uint64(len(names))},
	} {
		require.NoError(t, binary.Write(&b, binary.LittleEndian, part))
	}
	return b.Bytes()
}

// addModules puts all wanted modules into an unpacked package, of which one depends on another.
func addModules(t testing.TB, root string) {
	folder := filepath.Join(root, "lib/modules/6.1.0-56-cloud-amd64/kernel/net")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, name := range append(wantedModules, "nf_nat") {
		info := "license=GPL\x00"
		if name == "nft_nat" {
			info += "depends=nf-nat,nf_tables\x00"
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, "_", "-")+".ko"), module(t, info), 0o644))
	}
}

// TestKeepModules checks that modules are kept in the order in which they can be loaded, and that none may be absent.
func TestKeepModules(t *testing.T) {
	root, target := t.TempDir(), t.TempDir()
	addModules(t, root)
	require.NoError(t, keepModules(root, target))
	entries, err := os.ReadDir(filepath.Join(target, "6.1.0-56-cloud-amd64"))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{
		"00-veth.ko", "01-tun.ko", "02-nf_conntrack_netlink.ko", "03-nf_tables.ko", "04-nft_chain_nat.ko", "05-nf_nat.ko", "06-nft_nat.ko",
	}, names)
	require.NoError(t, os.Remove(filepath.Join(root, "lib/modules/6.1.0-56-cloud-amd64/kernel/net/nf-nat.ko")))
	require.ErrorContains(t, keepModules(root, target), "looking for the module nf_nat: it is not in the package")
	require.ErrorContains(t, keepModules(t.TempDir(), target), "0 folders instead of one")
}
