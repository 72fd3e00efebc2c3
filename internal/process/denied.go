// SPDX-License-Identifier: Apache-2.0

package process

// denial is a file of a process that may not be read. Its error is counted, but not logged, since the file's content may not matter.
type denial struct {
	file string
	err  error
}

// holding returns a procFS that does not log which files may not be read, but appends them to a list.
func (p procFS) holding(denied *[]denial) procFS {
	p.denied = denied
	return p
}

// note counts an error in reading a file of a process, and logs it unless the caller of [procFS.holding] handles it.
func (p procFS) note(file, reason string, err error) {
	p.errors.count(file, reason)
	if p.denied != nil && reason == reasonPermission {
		*p.denied = append(*p.denied, denial{file: file, err: err})
		return
	}
	p.errors.warn(file, reason, err)
}

// conditions are the conditions of selectors that cannot be evaluated without a file of a process.
func (d *denial) conditions(r *reading) fieldSet {
	switch d.file {
	case "exe":
		if r.environment.serviceName == "" {
			return fieldExe | fieldService // a process that names no service is named after its executable
		}
		return fieldExe
	case "environ":
		return fieldService
	case "cmdline":
		return fieldCmdline
	case "cgroup":
		return fieldContainer | fieldPod
	}
	return fieldPort
}

// warnDenied logs which files of a process may not be read, where they matter: if the process is in scope, or could be, depending on the
// content of the files.
func (t *Table) warnDenied(v *verdict, s *candidate) {
	if len(v.denied) == 0 {
		return
	}
	var unknown fieldSet
	for i := range v.denied {
		unknown |= v.denied[i].conditions(v.reading)
	}
	inScope := v.inScope
	if !inScope {
		_, _, known := t.rules.decideWithout(s, unknown)
		if known {
			return
		}
	}
	for i := range v.denied {
		d := &v.denied[i]
		if inScope || d.conditions(v.reading)&t.rules.uses != 0 {
			t.fs.errors.warn(d.file, reasonPermission, d.err)
		}
	}
}
