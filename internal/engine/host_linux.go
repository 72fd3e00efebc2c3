// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// whatToDo adds to an error what its reader can do about it, unless it says so already.
func whatToDo(err error) error {
	// The text of EMFILE is a part of that of ENFILE: the latter is checked first.
	for _, limit := range []struct {
		reached unix.Errno
		advice  string
	}{
		{unix.ENFILE, "raise the host's limit of open files (sysctl fs.file-max)"},
		{unix.EMFILE, "raise the limit of open files (ulimit -n, or LimitNOFILE of systemd)"},
	} {
		switch {
		case !isErrno(err, limit.reached):
			continue
		case strings.Contains(err.Error(), limit.advice):
			return err
		}
		return fmt.Errorf("%w; %s", err, limit.advice)
	}
	return err
}

// isErrno checks the text, too: the library that loads programs does not wrap all
// that the kernel answers.
func isErrno(err error, errno unix.Errno) bool {
	return errors.Is(err, errno) || strings.Contains(err.Error(), errno.Error())
}

// checkHost finds out what is missing before anything is loaded.
func (e *Engine) checkHost() error {
	missing, err := kernel.MissingCapabilities(kernel.CapBPF, kernel.CapPerfmon)
	if err != nil {
		return err
	}
	wanted, err := kernel.MissingCapabilities(e.config.capabilities()...)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return &kernel.MissingCapabilityError{Missing: append(missing, wanted...)}
	}
	if err := kernel.Filtered(e.sysRoot()); err != nil {
		return err
	}
	if len(wanted) > 0 {
		e.degrade("capabilities", &kernel.MissingCapabilityError{Missing: wanted})
	}
	return process.CheckPIDNamespace(e.config.RootPath)
}

// capabilities are those that are of use beyond the two that are needed. CAP_SYS_ADMIN
// is asked for where it is missed.
func (c Config) capabilities() []kernel.Capability {
	list := []kernel.Capability{kernel.CapSysPtrace, kernel.CapDACReadSearch, kernel.CapSyslog, kernel.CapCheckpointRestore}
	if c.anyConfigured(func(p observe.Plan) bool { return p.Needs().NetAdmin }) {
		list = append(list, kernel.CapNetAdmin)
	}
	return list
}

// degrade records that a capability is less than it could be, and logs it unless it was logged
// before.
func (e *Engine) degrade(what string, why error) {
	e.degradedMu.Lock()
	said := e.degraded[what] == why.Error()
	e.degraded[what] = why.Error()
	e.degradedMu.Unlock()
	if said {
		return
	}
	e.logger.Warn("The receiver is degraded", zap.String("capability", what), zap.Error(why))
}

// unavailable records that a part of the configuration cannot be done, and sets the receiver's status accordingly.
func (e *Engine) unavailable(what string, why error) {
	e.degrade(what, why)
	if e.hooks.Unavailable != nil {
		e.hooks.Unavailable(why)
	}
}
