package rpc

import (
	"slices"

	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
)

// Access says who may call a method, and what the call must carry.
type Access struct {
	// Roles that may call the method.
	Roles []identity.Role
	// Token: the call speaks for a node, so it carries the node's name and the token that registration returned.
	Token bool
	// AnySwarm: a caller that does not know the swarm ID yet may leave it out.
	AnySwarm bool
}

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
		swarmv1connect.SwarmServiceGetHealthProcedure: {Roles: all},

		swarmv1connect.NodeServiceChallengeProcedure:  {Roles: proving, AnySwarm: true},
		swarmv1connect.NodeServiceRegisterProcedure:   {Roles: nodes, AnySwarm: true},
		swarmv1connect.NodeServiceListNodesProcedure:  {Roles: all},
		swarmv1connect.NodeServiceLeaveNodeProcedure:  {Roles: nodes, Token: true},
		swarmv1connect.NodeServiceForgetNodeProcedure: {Roles: control},
		swarmv1connect.NodeServiceBanNodeProcedure:    {Roles: control},
		swarmv1connect.NodeServiceUnbanNodeProcedure:  {Roles: control},

		swarmv1connect.SessionServiceOpenSessionProcedure:   {Roles: slOnly, Token: true},
		swarmv1connect.SessionServiceReportProcedure:        {Roles: nodes, Token: true},
		swarmv1connect.SessionServiceWatchContractProcedure: {Roles: slOnly, Token: true},
		swarmv1connect.SessionServiceCloseSessionProcedure:  {Roles: slOnly, Token: true},
		swarmv1connect.SessionServiceEndSessionProcedure:    {Roles: slOnly, Token: true},

		swarmv1connect.ContractServiceListContractsProcedure:     {Roles: all},
		swarmv1connect.ContractServiceGetContractStatusProcedure: {Roles: all},
		swarmv1connect.ContractServiceResetContractProcedure:     {Roles: control},
		swarmv1connect.ContractServiceCreateContractProcedure:    {Roles: control},

		swarmv1connect.ModelServiceListModelsProcedure:  {Roles: all},
		swarmv1connect.LedgerServiceReadLedgerProcedure: {Roles: all},
	}
}

// permits reports whether a caller of this role may call the method at all.
func (a Access) permits(role identity.Role) bool { return slices.Contains(a.Roles, role) }
