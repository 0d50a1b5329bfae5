package health

// Handler answers on the health socket.
var Handler = handler
