// Package grid finds out from names where tensors stand in a network: their layer, their role in it, their expert, and the
// part of the network that they belong to. It searches names, and makes the list of tensors with its groups.
//
// Names are taken apart at dots and slashes. A number behind a word for layers is the layer's, as in model.layers.3 or
// blk.3; what stands before it is a stack of layers, what follows is the role. Nothing is known of a model but its index,
// so work and memory grow with the bytes of names, whatever numbers they have.
package grid
