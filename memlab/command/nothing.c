/* A program that does nothing: what starting a program costs by itself. */
int main(void)
{
	return 0;
}
