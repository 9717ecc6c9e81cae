package main

func superblocks() {}
