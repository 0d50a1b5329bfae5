package rpc

import (
	"cmp"
	"slices"
	"time"

	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
)

// Access says who may call a method, and what the call must carry.
type Access struct {
	// Roles that may call the method.
	Roles []identity.Role
	// Token: the call speaks for a node, so it carries the node's name and the token that registration returned.
	Token bool
	// Message bounds a request, in bytes, before and after decompression; 0: 64 KiB.
	Message int64
	// Answer is what else serving one call may take, in bytes; 0: 32 KiB.
	Answer int64
	// AnySwarm: a caller that does not know the swarm ID yet may leave it out.
	AnySwarm bool
	// Leader: the SN that leads answers, whichever is asked. One that does not lead passes the call on.
	Leader bool
	// Patience is for how long a leader is looked for, and waited for; 0: proposeTimeout.
	Patience time.Duration
	// Asks: the call commits nothing, though the leader answers it.
	Asks bool
}

// commits reports whether what a call did shows in the state.
func (a Access) commits() bool { return !a.Asks }

// AccessTable returns what each method of the API demands, by full method name ("/swarm.v1.NodeService/Register").
// A method that is absent is denied to everybody. SNs do not register here: they join through consensus.
func AccessTable() map[string]Access {
	var (
		all     = []identity.Role{identity.RoleSN, identity.RoleSL, identity.RoleSWOP, identity.RoleSWCI}
		nodes   = []identity.Role{identity.RoleSL, identity.RoleSWOP}
		slOnly  = []identity.Role{identity.RoleSL}
		control = []identity.Role{identity.RoleSWCI}
		proving = []identity.Role{identity.RoleSL, identity.RoleSWOP, identity.RoleSWCI}
	)
	return map[string]Access{
		swarmv1connect.SwarmServiceGetSwarmProcedure:  {Roles: all, AnySwarm: true},
		swarmv1connect.SwarmServiceGetHealthProcedure: {Roles: all, Answer: 256 << 10},

		swarmv1connect.NodeServiceChallengeProcedure:  {Roles: proving, AnySwarm: true, Leader: true, Asks: true},
		swarmv1connect.NodeServiceRegisterProcedure:   {Roles: nodes, AnySwarm: true, Leader: true},
		swarmv1connect.NodeServiceListNodesProcedure:  {Roles: all, Answer: 1 << 20},
		swarmv1connect.NodeServiceGetProofsProcedure:  {Roles: slOnly, Token: true, Answer: 1 << 20},
		swarmv1connect.NodeServiceLeaveNodeProcedure:  {Roles: nodes, Token: true, Leader: true},
		swarmv1connect.NodeServiceForgetNodeProcedure: {Roles: control, Leader: true},
		swarmv1connect.NodeServiceBanNodeProcedure:    {Roles: control, Leader: true},
		swarmv1connect.NodeServiceUnbanNodeProcedure:  {Roles: control, Leader: true},
		swarmv1connect.NodeServiceAdmitNodeProcedure:  {Roles: control, Leader: true},

		swarmv1connect.SessionServiceOpenSessionProcedure:   {Roles: slOnly, Token: true, Message: MaxMessage, Answer: 4 << 20, Leader: true},
		swarmv1connect.SessionServiceReportProcedure:        {Roles: nodes, Token: true, Message: 1 << 20, Leader: true, Asks: true, Patience: reportTimeout},
		swarmv1connect.SessionServiceWatchContractProcedure: {Roles: slOnly, Token: true, Answer: 64 << 10},
		swarmv1connect.SessionServiceCloseSessionProcedure:  {Roles: slOnly, Token: true, Leader: true},
		swarmv1connect.SessionServiceEndSessionProcedure:    {Roles: slOnly, Token: true, Leader: true},

		swarmv1connect.ContractServiceListContractsProcedure:     {Roles: all, Answer: 1 << 20},
		swarmv1connect.ContractServiceGetContractStatusProcedure: {Roles: all, Answer: 4 << 20, Leader: true, Asks: true},
		swarmv1connect.ContractServiceResetContractProcedure:     {Roles: control, Leader: true},
		swarmv1connect.ContractServiceDeleteContractProcedure:    {Roles: control, Leader: true},
		swarmv1connect.ContractServiceCreateContractProcedure:    {Roles: control, Message: 256 << 10, Leader: true},

		swarmv1connect.ModelServiceListModelsProcedure:  {Roles: all, Answer: 8 << 20, Leader: true, Asks: true},
		swarmv1connect.LedgerServiceReadLedgerProcedure: {Roles: all, Answer: 4 << 20},
		swarmv1connect.BackupServiceReadBackupProcedure: {Roles: control, Answer: 4 << 20},
		swarmv1connect.ModelServiceRecordFetchProcedure: {Roles: slOnly, Token: true, Leader: true},
	}
}

const (
	smallMessage = 64 << 10
	smallAnswer  = 32 << 10
)

func (a Access) maxMessage() int64 { return cmp.Or(a.Message, smallMessage) }

func (a Access) answer() int64 { return cmp.Or(a.Answer, smallAnswer) }

// permits reports whether a caller of this role may call the method at all.
func (a Access) permits(role identity.Role) bool { return slices.Contains(a.Roles, role) }
