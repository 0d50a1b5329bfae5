package client

// What the tests of package client_test must see.
const (
	HeaderSwarmID = headerSwarmID
	HeaderNode    = headerNode
	HeaderToken   = headerToken
	ExporterLabel = exporterLabel
	ExporterBytes = exporterBytes
)

// OwnReasons are the reasons that this package names.
func OwnReasons() []string {
	return []string{
		ReasonNoLeader, ReasonNoQuorum, ReasonTimeout, ReasonStopping, ReasonNoSwarm, ReasonSVIDExpired, ReasonNonceRefused,
		ReasonTokenRefused, ReasonWrongSwarm, ReasonContractUnknown, ReasonUnreachable,
	}
}

var Newer = newer
