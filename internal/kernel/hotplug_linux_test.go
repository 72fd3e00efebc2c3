// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// uevent is a message as the kernel sends it: a header, then KEY=VALUE, each ended by a zero byte.
func uevent(fields ...string) []byte { return []byte(strings.Join(fields, "\x00") + "\x00") }

func TestIsCPUEvent(t *testing.T) {
	for name, c := range map[string]struct {
		message []byte
		want    bool
	}{
		"offline": {uevent("offline@/devices/system/cpu/cpu1", "ACTION=offline", "DEVPATH=/devices/system/cpu/cpu1",
			"SUBSYSTEM=cpu", "DRIVER=processor", "MODALIAS=cpu:type:x86,ven0000fam0006mod008F:feature:,0000", "SEQNUM=1182"), true},
		"online": {uevent("online@/devices/system/cpu/cpu1", "ACTION=online", "DEVPATH=/devices/system/cpu/cpu1",
			"SUBSYSTEM=cpu", "DRIVER=processor", "SEQNUM=1183"), true},
		"hot-added": {uevent("add@/devices/system/cpu/cpu64", "ACTION=add", "DEVPATH=/devices/system/cpu/cpu64", "SUBSYSTEM=cpu", "SEQNUM=9"), true},
		"removed":   {uevent("remove@/devices/system/cpu/cpu64", "ACTION=remove", "DEVPATH=/devices/system/cpu/cpu64", "SUBSYSTEM=cpu", "SEQNUM=9"), true},
		"changed":   {uevent("change@/devices/system/cpu/cpu1", "ACTION=change", "DEVPATH=/devices/system/cpu/cpu1", "SUBSYSTEM=cpu", "SEQNUM=9"), false},
		"memory": {uevent("offline@/devices/system/memory/memory40", "ACTION=offline", "DEVPATH=/devices/system/memory/memory40",
			"SUBSYSTEM=memory", "SEQNUM=77"), false},
		"another subsystem whose name begins alike": {uevent("add@/x", "ACTION=add", "SUBSYSTEM=cpuidle", "SEQNUM=7"), false},
		"the value in another key":                  {uevent("add@/x", "ACTION=add", "NAME=SUBSYSTEM=cpu", "SEQNUM=7"), false},
		"udev's own message":                        {append([]byte("libudev\x00\xfe\xed\xca\xfe"), make([]byte, 28)...), false},
		"empty":                                     {nil, false},
		"no zero byte":                              {[]byte("ACTION=online"), false},
		"only zero bytes":                           {make([]byte, 64), false},
	} {
		require.Equal(t, c.want, isCPUEvent(c.message), name)
	}
}

func TestHotPlugEndsWithoutEvents(t *testing.T) {
	before := time.Now()
	h, err := WatchHotPlug()
	require.NoError(t, err)
	require.NoError(t, h.Close())
	require.Less(t, time.Since(before), time.Minute)
	select {
	case <-h.Events():
		t.Log("a CPU came or went during the test")
	default:
	}
}

// TestNotifyMerges checks that a busy receiver is notified once and that notifying never blocks.
func TestNotifyMerges(t *testing.T) {
	h := &HotPlug{events: make(chan struct{}, 1)}
	for range 100 {
		h.notify()
	}
	<-h.Events()
	select {
	case <-h.Events():
		t.Fatal("events that were not read yet must be one")
	default:
	}
}
