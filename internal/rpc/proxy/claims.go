// Package proxy has the API's calls answered by the SN that leads: an SN passes the same bytes on, says for whom, and brings
// the answer back as it is.
package proxy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Headers by which one SN tells another for whom it passes a call on. What a client sends under these names is removed.
const (
	headerCaller   = "Swarm-Caller"
	headerChain    = "Swarm-Caller-Chain"
	headerExporter = "Swarm-Caller-Exporter"
)

// HeaderIndex is on the answer to a call that commits: the index of the leader's state behind it.
const HeaderIndex = "Swarm-Index"

// Bounds of what is claimed, in bytes and certificates.
const (
	maxCaller   = 2 << 10
	maxChain    = 8
	maxExporter = 256
)

// ErrClaims reports headers that say nothing readable of who calls.
var ErrClaims = errors.New("malformed claims of who calls")

// Claims are what an SN says of who has called it. Nothing of it is proven.
type Claims struct {
	Caller   string   // the caller's SPIFFE ID
	Chain    [][]byte // its SVID, in calls that are about it
	Exporter []byte   // what binds a registration to the connection
}

func (c Claims) put(h http.Header) {
	for _, name := range []string{headerCaller, headerChain, headerExporter} {
		h.Del(name)
	}
	h.Set(headerCaller, c.Caller)
	if len(c.Chain) > 0 {
		certs := make([]string, len(c.Chain))
		for i, cert := range c.Chain {
			certs[i] = base64.RawStdEncoding.EncodeToString(cert)
		}
		h.Set(headerChain, strings.Join(certs, ","))
	}
	if len(c.Exporter) > 0 {
		h.Set(headerExporter, base64.RawStdEncoding.EncodeToString(c.Exporter))
	}
}

// ClaimsOf returns what a request's headers claim; passedOn is false if it is the SN's own request.
func ClaimsOf(h http.Header) (c Claims, passedOn bool, err error) {
	c.Caller = h.Get(headerCaller)
	chain, exporter := h.Get(headerChain), h.Get(headerExporter)
	if c.Caller == "" && chain == "" && exporter == "" {
		return Claims{}, false, nil
	}
	if c.Caller == "" || len(c.Caller) > maxCaller || strings.Count(chain, ",") >= maxChain || len(exporter) > maxExporter {
		return Claims{}, true, ErrClaims
	}
	if chain != "" {
		for _, text := range strings.Split(chain, ",") {
			cert, err := base64.RawStdEncoding.Strict().DecodeString(text)
			if err != nil || len(cert) == 0 {
				return Claims{}, true, fmt.Errorf("%w: a certificate", ErrClaims)
			}
			c.Chain = append(c.Chain, cert)
		}
	}
	if exporter != "" {
		if c.Exporter, err = base64.RawStdEncoding.Strict().DecodeString(exporter); err != nil || len(c.Exporter) == 0 {
			return Claims{}, true, fmt.Errorf("%w: the exporter", ErrClaims)
		}
	}
	return c, true, nil
}
