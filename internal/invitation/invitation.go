// Package invitation is the one line by which a host joins a swarm: for whom it is, how its SPIRE agent joins the trust domain, and
// where the swarm is. It is pure: it makes the line and reads it, bounds all of it, and says what is wrong with a line that is none.
//
// The line holds secrets until they are used: the join token, and where operators admit SNs what admits one. Whoever carries it is trusted: the checksum finds accidents, and the
// fingerprint, which both ends print, is for people to compare.
package invitation

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/identity/naming"
)

// Bounds of an invitation.
const (
	MaxLine  = 64 << 10 // bytes, white space included
	MaxNodes = 8
	MaxSNs   = 16
	maxCerts = 16
	maxDER   = 8 << 10 // bytes of one certificate
	maxWord  = 128     // bytes of a join token or a swarm ID
	maxHost  = 253     // bytes
)

// FingerprintLen is the number of characters of a fingerprint.
const FingerprintLen = 10

// Invitation is what a line holds. All of it is needed, but for Admission.
type Invitation struct {
	Nodes       []Node    // for whom it is, one of each role at most: the components of one host
	Token       string    // a SPIRE server's join token, for one agent
	TrustDomain string    // its name
	Server      Address   // of the SPIRE server
	Bundle      []byte    // by which the agent knows that server: DER certificates, one after the other
	SNs         []SN      // of the swarm, when the line was made
	SwarmID     string    // of the swarm
	Expires     time.Time // of the token, in whole seconds
	Admission   []byte    // secret by which the SN among Nodes claims that it is admitted: claim.Sign; nil: the line admits none
}

// Node is one component of the host.
type Node struct {
	Role identity.Role `json:"role"`
	Name string        `json:"name,omitempty"` // empty only for operators, who may share their role's SPIFFE ID
}

// String is the node as people write it: ROLE/NAME, or ROLE alone.
func (n Node) String() string {
	if n.Name == "" {
		return string(n.Role)
	}
	return string(n.Role) + "/" + n.Name
}

// Address is where a server listens.
type Address struct {
	Host string `json:"host"` // a name or an IP address
	Port int    `json:"port"`
}

// String is HOST:PORT.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// SN is where an SN is found.
type SN struct {
	API   Address `json:"api"`   // by SLs and operators
	Files Address `json:"files"` // by SNs that join
}

// SPIFFEID is the SPIFFE ID that a node of the invitation gets.
func (i *Invitation) SPIFFEID(n Node) string {
	return "spiffe://" + i.TrustDomain + "/swarm/" + n.String()
}

// For lists for whom the invitation is, as people read it.
func (i *Invitation) For() string {
	var all []string
	for _, n := range i.Nodes {
		all = append(all, n.String())
	}
	return strings.Join(all, ", ")
}

// Of returns the node of a role, and whether the invitation has one.
func (i *Invitation) Of(role identity.Role) (Node, bool) {
	for _, n := range i.Nodes {
		if n.Role == role {
			return n, true
		}
	}
	return Node{}, false
}

// BundlePEM is the bundle as SPIRE's programs read it.
func (i *Invitation) BundlePEM() []byte {
	certs, err := x509.ParseCertificates(i.Bundle)
	if err != nil {
		return nil // Check finds that
	}
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// Fingerprint is what people compare: ten characters of a digest of the line. It gives nothing away of what the line holds.
func (i *Invitation) Fingerprint() (string, error) {
	line, err := i.Encode()
	if err != nil {
		return "", err
	}
	return fingerprint("fingerprint", line), nil
}

var letters = base32.NewEncoding("abcdefghjkmnpqrstuvwxyz023456789").WithPadding(base32.NoPadding) // without i, l, o and 1

// fingerprint is ten characters of the digest of a text, for one purpose.
func fingerprint(purpose, text string) string {
	sum := sha256.Sum256([]byte("swarm invitation " + purpose + "\n" + text))
	return letters.EncodeToString(sum[:])[:FingerprintLen]
}

var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]*$`)

// Check finds what an invitation must not hold, or lacks. What it passes can be written into a command line, and into a path.
func (i *Invitation) Check() error {
	if err := i.CheckNodes(); err != nil {
		return err
	}
	for _, w := range [][2]string{{"join token", i.Token}, {"swarm ID", i.SwarmID}} {
		if len(w[1]) > maxWord || !word.MatchString(w[1]) {
			return fmt.Errorf("the %s is none", w[0])
		}
	}
	if td, err := spiffeid.TrustDomainFromString(i.TrustDomain); err != nil || td.Name() != i.TrustDomain {
		return fmt.Errorf("trust domain %.80q is none", i.TrustDomain)
	}
	if len(i.SNs) == 0 || len(i.SNs) > MaxSNs {
		return fmt.Errorf("it names %d SNs: want 1 to %d", len(i.SNs), MaxSNs)
	}
	addresses := []Address{i.Server}
	for _, sn := range i.SNs {
		addresses = append(addresses, sn.API, sn.Files)
	}
	for _, a := range addresses {
		if err := a.Check(); err != nil {
			return err
		}
	}
	if i.Expires.Unix() <= 0 || i.Expires.Unix() > 1<<40 || i.Expires.Nanosecond() != 0 {
		return fmt.Errorf("it expires at %v, which is no time in whole seconds", i.Expires)
	}
	if _, sn := i.Of(identity.RoleSN); i.Admission != nil && (!sn || len(i.Admission) != claim.SecretSize) {
		return errors.New("what it admits is no SN, or its secret is none")
	}
	return i.checkBundle()
}

// CheckNodes is the part of Check that is about those for whom the invitation is.
func (i *Invitation) CheckNodes() error {
	if len(i.Nodes) == 0 || len(i.Nodes) > MaxNodes {
		return fmt.Errorf("it is for %d nodes: want 1 to %d", len(i.Nodes), MaxNodes)
	}
	seen, names := map[identity.Role]bool{}, map[string]bool{}
	for _, n := range i.Nodes {
		role := naming.RoleOf(string(n.Role))
		switch {
		case role.Name == "":
			return fmt.Errorf("role %.20q is not known", n.Role)
		case seen[n.Role]:
			return fmt.Errorf("it is for two nodes of role %s: invite each host by itself", n.Role)
		case role.Node && names[n.Name]:
			return fmt.Errorf("it is for two nodes called %.80q: nodes of a swarm have names of their own", n.Name)
		case n.Name == "" && role.Node:
			return fmt.Errorf("it names no node of role %s: write %s/NAME", n.Role, n.Role)
		}
		if n.Name != "" {
			if err := naming.CheckNode(n.Name); err != nil {
				return err
			}
		}
		seen[n.Role] = true
		names[n.Name] = names[n.Name] || role.Node
	}
	return nil
}

func (i *Invitation) checkBundle() error {
	if len(i.Bundle) > maxCerts*maxDER {
		return fmt.Errorf("its trust bundle has %d bytes", len(i.Bundle))
	}
	certs, err := x509.ParseCertificates(i.Bundle)
	if err != nil || len(certs) == 0 || len(certs) > maxCerts {
		return fmt.Errorf("its trust bundle is none of 1 to %d certificates", maxCerts)
	}
	return nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)

// Check finds what is no address. One with a zone means nothing on another host.
func (a Address) Check() error {
	if ip, err := netip.ParseAddr(a.Host); err == nil && ip.Zone() != "" || err != nil && (len(a.Host) > maxHost || !hostName.MatchString(a.Host)) {
		return fmt.Errorf("host %.80q is none", a.Host)
	}
	if a.Port < 1 || a.Port > 65535 {
		return fmt.Errorf("port %d is none", a.Port)
	}
	return nil
}
