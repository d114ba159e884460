#include <stdio.h>
int main(void)
{
    puts("hearth " HEARTH_VERSION);
    return 0;
}
