// SPDX-License-Identifier: Apache-2.0

package requests

// A request ends before the peer of its connection is known: each report finds the peers of all connections together. Until then the request
// counts in a pending series of its connection, which is not exported. A server that forks for each connection has one pending series for
// each connection since the last report.

// pendingShare is the maximum ratio of pending series to series.
const pendingShare = 2

// pendingKey is the key of a series, without its peer, and the connection's series in the kernel.
type pendingKey struct {
	key
	series, generation uint32
}

// ByPeer makes the totals count requests by the peers of their connections. It must be called before anything is counted. of returns the peer
// of a series in the kernel, nil while that is unknown; it may be called from any goroutine.
func (t *Totals) ByPeer(of func(series, generation uint32) *Peer) { t.peerOf = of }

// findFor returns the series of a key, whose peer is not set, that an exchange of a connection counts in. The caller holds the lock.
func (t *Totals) findFor(p *process, k *key, conn *Connection) *series {
	if t.peerOf == nil {
		return t.find(p, k)
	}
	if !k.Overflow {
		if peer := t.peerOf(conn.Series, conn.Generation); peer != nil {
			k.peer = *peer
			return t.find(p, k)
		}
	}
	k.peer = Peer{} // that of the exchange before
	if k.Overflow {
		return t.find(p, k)
	}
	at := pendingKey{key: *k, series: conn.Series, generation: conn.Generation}
	if s := p.pending[at]; s != nil {
		return s
	}
	if t.pending >= t.most*pendingShare {
		t.unnamedOf(p).Peers++
		return t.find(p, k)
	}
	if p.pending == nil {
		p.pending = map[pendingKey]*series{}
	}
	s := t.newSeries(k)
	p.pending[at] = s
	t.pending++
	return s
}

// NamePeers adds the counts of pending series to the series of their peers. It is called for each report, after the peers were found. A
// connection that began during the report is tried again at the next one; a peer that is still unknown then is left out.
func (t *Totals) NamePeers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byResource {
		for at, s := range p.pending {
			peer := t.peerOf(at.series, at.generation)
			if peer == nil && !s.waited {
				s.waited = true
				continue
			}
			delete(p.pending, at)
			t.pending--
			k := at.key
			if peer != nil {
				k.peer = *peer
			}
			t.addNamed(p, k, s)
		}
	}
}

// addNamed adds the counts of a pending series to the series with a key.
func (t *Totals) addNamed(p *process, k key, s *series) {
	unnamed := t.unnamedOf(p)
	before := unnamed.Series
	into := t.find(p, &k)
	if unnamed.Series > before { // s is in the overflow series
		unnamed.Series = before + s.requests()
	}
	into.take(s)
}

// joinPending adds the pending series of a process to those of another one with the same resource.
func (t *Totals) joinPending(to, from *process) {
	for at, s := range from.pending {
		same := to.pending[at]
		if same == nil {
			if to.pending == nil {
				to.pending = map[pendingKey]*series{}
			}
			to.pending[at] = s
			continue
		}
		same.take(s)
		t.pending--
	}
}
